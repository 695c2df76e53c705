from amqp_router.protocol.message cimport Message
from persistence.log.format.segment cimport Segment


cdef class Batch:
    cdef public unsigned int kind
    cdef public unsigned long long base
    cdef public unsigned long long last
    cdef public unsigned long count
    cdef public long long base_ts
    cdef public unsigned long max_ts_delta
    cdef public unsigned long epoch
    cdef public unsigned int record_size
    cdef public unsigned int attributes
    cdef public list pieces
    cdef public unsigned long long length
    cdef public long long payload_crc
    cdef public Segment segment
    cdef public unsigned long long position
    cdef public Message message
