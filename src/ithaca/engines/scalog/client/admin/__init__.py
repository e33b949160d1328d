"""Looking after a cluster: `status` says how it is, `places` where its servers are, `admin` changes it (`orderers`,
`replicas`, `names`, `losses`).
"""
