"""Makes ``spark.read.format("amqp_router")`` known to Spark, which looks into packages named ``pyspark_*``."""
