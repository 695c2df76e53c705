"""The demonstration: all flights that left New York in 2013 go through the broker, and each is accounted for.

`flights` reads the data set, `topology` says which queues there are and what each must get, `publishing` and
`consuming` are two pika clients, `statistics` reads the logs with Spark, ``python -m demo`` runs it all.
"""
