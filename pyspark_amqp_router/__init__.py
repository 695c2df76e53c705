"""Makes ``format("amqp_router")`` known to Spark, which looks into packages named ``pyspark_*``."""

from spark_analytics.data_source import AmqpRouterSource


class DefaultSource(AmqpRouterSource):
    """The name that Spark looks for."""
