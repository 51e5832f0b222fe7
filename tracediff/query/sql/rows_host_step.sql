-- rows_host_step: the whole steps, as the host sees them: of which process's steps each process is part.
--   capture, run, rank, pid, step INTEGER
--   phase VARCHAR
SELECT w.capture, p.run, p."rank", w.pid, w.step, p.phase
FROM {{rows}}.window AS w
JOIN {{side}}.period AS p ON p.capture = w.capture AND p.pid = w.owner AND p.step = w.step
-- a step of several devices is one on the host
QUALIFY p.device = min(p.device) OVER (PARTITION BY p.capture, p.pid);
