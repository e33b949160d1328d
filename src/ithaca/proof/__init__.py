"""What a run did, written down, and the judge of it: histories, their checker, and what replicas hold at the end.

The simulator and the torturer write the same histories, and `checker` judges both (docs/proof.md).
"""
