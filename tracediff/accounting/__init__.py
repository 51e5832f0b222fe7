"""accounting: busy and idle time of every period, by cause; it sums to the period exactly."""
