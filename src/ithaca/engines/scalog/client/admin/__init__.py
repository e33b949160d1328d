"""Looking after a cluster: `status` says how it is, `admin` changes it (`orderers`, `replicas`, `names`)."""
