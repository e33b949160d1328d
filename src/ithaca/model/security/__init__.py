"""Who is who: `tls` says which files protect a link and prove who speaks, `identity` what certificates say, `token`
where a client's token comes from. `users` says who may do what.
"""
