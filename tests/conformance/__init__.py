"""What every engine must do; a package, so that the clusters its tests share end with it."""
