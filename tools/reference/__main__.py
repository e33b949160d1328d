"""`python -m tools.reference`: see the package."""

import sys

from tools.reference.pages import TARGET, texts


def main() -> int:
    found = texts()
    stale = [path for path, text in found.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in TARGET.glob("*.md") if path not in found]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} does not say what the docstrings say: run `make generate`", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for path in TARGET.glob("*.md"):
        path.unlink()
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
