"""What tests share: small models, recorded results, simulated GPUs, calls of a service."""
