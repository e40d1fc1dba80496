"""Times single operations, copies and the host of the GPU here: what ``memorymark calibrate`` runs in a worker."""
