-- What nsys sampled of GPUs (nsys --gpu-metrics-devices=all; before 2024.6 --gpu-metrics-device=all), where its scale is known.
--   gpu      BIGINT    GPU ID of nsys: the low byte of typeId
--   metric   VARCHAR   name as recorded; numbers of metrics are not stable between exports
--   unit     VARCHAR   % or MHz
--   time_ns  BIGINT    instant of the sample
--   value    DOUBLE    percent of the peak as 0 to 100, or MHz; NULL: no such value can be
-- Metrics of any other unit are in gpu_metric alone: nothing documents how their values are scaled.
CREATE TABLE gpu_metric AS
SELECT type, metric_id, metric, type & 255 AS gpu,
       CASE WHEN regexp_matches(metric, '\[[^\]]*%\]\s*$') THEN '%'
            WHEN metric LIKE '%[MHz]' THEN 'MHz'
            WHEN metric IN ('SM Active', 'SMs Active', 'SM Issue', 'Tensor Active') THEN '%' END AS unit -- 2023 and before
FROM (
    SELECT typeId AS type, metricId AS metric_id, min(metricName) AS metric
    FROM staged_TARGET_INFO_GPU_METRICS
    WHERE typeId IS NOT NULL AND metricId IS NOT NULL AND length(metricName) <= 200
    GROUP BY ALL
);
-- A clock that is named in MHz is stored in Hz: no GPU runs at 100 GHz, so the number tells.
CREATE TABLE gpu_sample AS
SELECT gpu, metric, unit, time_ns,
       CASE WHEN raw < 0 OR (unit = '%' AND raw > 100) THEN NULL
            WHEN unit = 'MHz' AND raw >= 100000 THEN raw / 1e6 ELSE raw END AS value
FROM (
    SELECT m.gpu, m.metric, m.unit, s.timestamp AS time_ns, s.value AS raw
    FROM staged_GPU_METRICS AS s JOIN gpu_metric AS m ON m.type = s.typeId AND m.metric_id = s.metricId
    WHERE m.unit IS NOT NULL AND s.timestamp BETWEEN -9007199254740992 AND 9007199254740992
          AND (s.value IS NULL OR isfinite(s.value))
);
-- gpu_of: which GPU of nsys a device of a process is; no row where the export does not say, or says two things.
--   pid BIGINT, device BIGINT, gpu BIGINT
CREATE TABLE gpu_of AS
SELECT CASE WHEN pid >= 16777216 THEN pid >> 24 & 16777215 ELSE pid END AS pid, cudaId AS device, min(gpuId) AS gpu
FROM staged_TARGET_INFO_CUDA_DEVICE
WHERE pid IS NOT NULL AND cudaId IS NOT NULL
GROUP BY 1, 2
HAVING count(DISTINCT gpuId) = 1 AND count(gpuId) = count(*);
