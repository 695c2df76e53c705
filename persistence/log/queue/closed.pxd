from persistence.log.format.record cimport Batch
from persistence.log.queue.log_reader cimport Tail
from persistence.log.queue.partition cimport Partition
from persistence.log.sync.checkpoints cimport Checkpoints


cdef class Closed:
    cdef public Partition partition
    cdef public Tail tail
    cdef public unsigned long long end
    cdef Checkpoints _checkpoints
    cdef list _outbox

    cdef place(self, Batch batch)
    cpdef list take(self)
