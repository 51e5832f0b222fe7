"""measure: closed accounting, attribution of idle gaps, statistics, comparability, findings, verdict."""
