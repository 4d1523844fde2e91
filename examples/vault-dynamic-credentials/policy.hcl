path "database/creds/shop" { capabilities = ["read"] }
# Revokes the credentials when the mirror is deleted. Without it they end when their lease expires.
path "sys/leases/revoke" { capabilities = ["update"] }
