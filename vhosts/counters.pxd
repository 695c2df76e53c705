# Compiled types of counters.py.


cdef class ExchangeCounters:
    cdef public unsigned long long publish_in
    cdef public unsigned long long publish_out
    cdef public unsigned long long unroutable
    cdef public unsigned long long inner_in
    cdef public unsigned long long inner_out


cdef class RecentUnroutable:
    cdef dict _counts
    cpdef void note(self, str exchange, str routing_key)


cdef class MessageTotals:
    cdef public unsigned long long publish
    cdef public unsigned long long confirm
    cdef public unsigned long long publish_confirm
    cdef public unsigned long long return_unroutable
    cdef public unsigned long long drop_unroutable
    cdef public unsigned long long deliver
    cdef public unsigned long long deliver_no_ack
    cdef public unsigned long long get
    cdef public unsigned long long get_no_ack
    cdef public unsigned long long get_empty
    cdef public unsigned long long redeliver
    cdef public unsigned long long ack
    cpdef void add(self, MessageTotals other)


cdef class Counters:
    cdef public unsigned long long queue_declared
    cdef public unsigned long long queue_created
    cdef public unsigned long long queue_deleted
    cdef public unsigned long long channel_created
    cdef public unsigned long long channel_closed
    cdef public MessageTotals closed
