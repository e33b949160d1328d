"""The servers of Belfast: `orderer` and `replica`, each scalog's with slots; `rights` is what messages take."""
