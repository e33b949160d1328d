"""`python -m ithaca` is the command line."""

from ithaca.cli.main import run

if __name__ == "__main__":
    run()
