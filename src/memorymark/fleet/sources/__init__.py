"""Where a fleet's facts come from: this host's driver, Prometheus, Slurm and jobstats."""
