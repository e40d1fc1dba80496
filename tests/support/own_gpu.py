"""A GPU that is in no catalog, as its owner describes it."""

LAB = {
    "name": "Lab GPU",
    "memory_mib": 24576,
    "compute_capability": "8.6",
    "multiprocessors": 82,
    "boost_clock_mhz": 1695,
    "bandwidth_gb_per_second": 936,
}
