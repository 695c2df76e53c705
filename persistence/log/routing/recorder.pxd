# Compiled types of recorder.py.

cimport cython

from persistence.memory cimport MemoryBudget
from amqp_router.protocol.tick cimport Tick
from persistence.log.format.record cimport Batch
from persistence.log.format.segment cimport Segment
from persistence.log.routing cimport events
from persistence.log.routing.names cimport SegmentNames, WideNames
from persistence.log.routing.open_batch cimport OpenBatch

cdef long long _DAY_US
cdef long long _U32_MAX


cdef class BacklogPort:
    pass


cdef class Backlog:
    cdef public MemoryBudget account
    cdef public long long bytes
    cdef public long long bytes_max
    cdef public long long write_bytes
    cdef public bint full
    cdef public list dirty
    cdef public BacklogPort port
    cpdef add(self, long long size)
    cpdef remove(self, long long size)


cdef class RouteEntry:
    cdef public Recorder recorder
    cdef public bytes key
    cdef public bytes payload
    cdef public WideNames wide
    cdef public unsigned int id
    cdef public unsigned long long segment


cdef class Recorder:
    cdef public str directory
    cdef public Backlog backlog
    cdef public list closed
    cdef public bint dirty
    cdef public unsigned long long end
    cdef public bint stopped
    cdef public unsigned long long lost
    cdef public Segment segment
    cdef public long long last_us
    cdef Tick _tick
    cdef long long _segment_bytes_max
    cdef SegmentNames _names
    cdef OpenBatch _batch
    cdef RouteEntry _entry
    cdef long long _size
    cdef unsigned int _flags
    cdef unsigned int _same
    cdef unsigned long long _run
    cdef long long _tick_us
    cdef long long _now_us
    cpdef bint note(self, RouteEntry entry, long long size, unsigned int flags) except -1
    @cython.locals(now_us="long long", backlog=Backlog, batch=OpenBatch, names=SegmentNames)
    cdef _begin_run(self, RouteEntry entry, long long size, unsigned int flags)
    @cython.locals(entry=RouteEntry)
    cdef _end_run(self)
    @cython.locals(size="long long", segment=Segment)
    cdef bint _is_segment_due(self, long long now_us) except -1
    @cython.locals(batch=Batch, segment=Segment)
    cpdef close(self)
    cpdef roll(self)
    cpdef begin(self, Segment segment, dict ids, unsigned int names, long long last_us)
    cpdef stop(self)


cpdef long long waiting_bytes(Batch batch, list names) except -1
