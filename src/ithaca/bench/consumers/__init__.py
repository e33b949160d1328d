"""What named consumers cost, and how quickly groups hand over: `run` does all of it, `committing` has a commit beside a
lone append, and many consumers that commit, `members` a group whose members come and are killed.
"""
