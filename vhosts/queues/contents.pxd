from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from persistence.memory cimport MemoryBudget

cdef long long _OVERHEAD
cdef int _SPILL_UNITS
cdef int _SPILL_OCTETS_SHIFT


cdef class Contents:
    cdef public MemoryBudget budget
    cdef public object spill  # files of contents put aside; not compiled
    cpdef put_aside(self, Message message)
    cpdef take_back(self, Message message)
    cpdef recall(self, Message message, QueueLog log)
    cpdef void release(self, Message message)
    cdef void _count_work(self, Message message)
