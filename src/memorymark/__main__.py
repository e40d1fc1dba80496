"""``python -m memorymark``."""

from memorymark.cli import main

if __name__ == "__main__":
    main()
