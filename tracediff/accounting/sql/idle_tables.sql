-- idle_gap: idle time of a device between two ops.
CREATE OR REPLACE TABLE idle_gap (
    gap INTEGER, -- 0, 1, ... by unit and time
    unit INTEGER, -- rank and device
    period INTEGER,
    start_ns BIGINT,
    end_ns BIGINT,
    previous INTEGER, -- key of the op before
    next INTEGER, -- and of the op that ends the gap
    crossed BOOLEAN -- these two are of different streams
);

-- idle_piece: a part of a gap with one cause; the pieces of a gap tile it. Numbers stand for names: see cause_name, role_name, place_name.
CREATE OR REPLACE TABLE idle_piece (
    gap INTEGER,
    period INTEGER,
    start_ns BIGINT,
    end_ns BIGINT,
    cause UTINYINT,
    under UTINYINT, -- of a wait for the GIL the cause had the GIL not been traced, else the cause
    thread USMALLINT, -- role of the launching thread, 0 unknown
    place INTEGER, -- its innermost range, 0 without a thread
    holder USMALLINT, -- role of the thread that held the GIL, 0 for no wait
    holder_place INTEGER,
    copy BOOLEAN, -- launch_api inside a call that copies
    api INTEGER -- CUDA function that the piece lies in, -1 outside
);
