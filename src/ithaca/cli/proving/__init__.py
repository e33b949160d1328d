"""Commands that try the promises: `sim`, `torture` (with `soak` for hours of it) and `check_history`, which judges."""
