"""Write docs/reference as plain Markdown: the Python interface and every command, from docstrings and signatures.

    python -m tools.reference           write the pages
    python -m tools.reference --check   say whether they are up to date, by the exit status

`pages` says what stands on which page, `python` makes Markdown of a class or a function, `docstring` of a docstring,
`commands` of the command line. A public name that stands on no page is an error.
"""
