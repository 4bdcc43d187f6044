"""Who may do what: keys, scopes, rates, quotas, and requests of other sites."""
