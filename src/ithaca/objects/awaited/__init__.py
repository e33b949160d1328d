"""The shells of `ithaca.objects`, awaited: the source of `blocking`. Read `follower` first, then `replica`."""
