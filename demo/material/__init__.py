"""Makes the material of the demo: recordings, slides and the video."""
