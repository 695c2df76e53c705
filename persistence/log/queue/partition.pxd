cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.format.messages cimport BatchView
from persistence.log.format.record cimport Batch
from persistence.log.format.segment cimport Segment
from persistence.log.format.settles cimport SettleRun, SettleState
from persistence.log.queue.gone cimport Settled

cdef long long _U32_MAX


cdef class Partition:
    cdef public str directory
    cdef public unsigned long salt
    # The caches of files, the owners of salts and the options are not compiled.
    cdef public object owners
    cdef public Settled gone
    cdef public object options
    cdef object _readers
    cdef public list segments
    cdef list _bases
    cdef unsigned long long _segment_bytes_max

    cpdef add(self, Segment segment)
    @cython.locals(segment=Segment)
    cpdef Segment roll(self, unsigned long long base)
    @cython.locals(segment=Segment, rolled=bint, since_ms="long long")
    cpdef bint place(self, Batch batch) except -1
    @cython.locals(segment=Segment)
    cpdef tuple synced_place(self)
    @cython.locals(run=SettleRun, segment=Segment, is_empty=bint)
    cpdef bint count_settled(self, list runs, SettleState state) except -1


cdef class Cursor:
    cdef Partition _partition
    cdef public BatchView view
    cdef public Message large
    cdef Segment _segment
    cdef bytes _data
    cdef long long _data_at
    cdef long long _next_at
    cdef long long _next_base

    cpdef forget(self)
    cpdef seek(self, unsigned long long offset)
