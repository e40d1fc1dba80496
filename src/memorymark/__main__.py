"""``python -m memorymark``."""

from memorymark.cli.main import main

if __name__ == "__main__":
    main()
