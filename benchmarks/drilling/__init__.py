"""What ``drills.py`` is made of: a server to break, callers, ways to break it, and the judging of what came of it."""
