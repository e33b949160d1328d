"""`ithaca bench ...`: `bench` puts the commands together; `cluster`, `emulate`, `experiments` and `spark` are some of
them, `options` and `report` what they share.
"""
