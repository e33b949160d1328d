"""Shards as the load asks for them: `load_meter` measures, `policy` decides (pure), `autoscale` does it."""
