"""The thresholds by which jobs are judged. docs/fleet.md explains them; a test keeps its table true."""

from __future__ import annotations

# A job is judged once it is this old: starting up, it loads data and compiles.
YOUNG_SECONDS = 600.0
# Below this part of the time with a kernel running, a GPU does nothing worth its price.
IDLE_BUSY = 0.05
# A GPU that is idle for at least this part of the job's time is reported as idle; the part before may well be busy.
IDLE_SHARE = 0.5
# Shorter windows that are idle are gaps between kernels, not idle time.
IDLE_WINDOW_SECONDS = 60.0
# Below this part of the time, a GPU that works is underused.
UNDERUSED_BUSY = 0.6
# Busy in bursts: the spread of utilization within windows is this part of its mean, or more.
BURSTY = 0.5
# A job that waits for data keeps at least this part of the GPU's memory.
HELD_MEMORY = 0.05
# Busy at least this part of the time, with tensor cores active less than that: they are idle.
TENSOR_BUSY = 0.8
TENSOR_IDLE = 0.02
# Oversized: the job's peak leaves more than this part of its GPU's memory free ...
OVERSIZED_FREE = 0.5
# ... would fill no more than this part of a smaller GPU's ...
SMALLER_FILL = 0.8
# ... which costs at least this part less.
SMALLER_SAVES = 0.2
# A smaller GPU has to keep up with the mean plus this many standard deviations of the utilization.
BURST_DEVIATIONS = 2.0
