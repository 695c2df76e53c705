# Compiled types of recorder.py.

cimport cython

from persistence.memory cimport MemoryBudget
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.tick cimport Tick
from persistence.log.format.record cimport Batch

cdef unsigned int _RECORDS_MAX
cdef Py_ssize_t _BATCH_BYTES_MAX
cdef long long _NEW_NAMES_BYTES_MAX
cdef long long _NAMES_BYTES_MAX
cdef long long _DAY_US
cdef unsigned int _SAME_KEY
cdef long long _U32_MAX
cdef unsigned int _ROUTING
cdef unsigned int _RECORD_SIZE
cdef unsigned int _HEADER_SIZE


cdef class Backlog:
    cdef public MemoryBudget account
    cdef public long long bytes
    cdef public long long bytes_max
    cdef public long long write_bytes
    cdef public bint full
    cdef public list dirty
    cdef public object hold
    cdef public object on_dirty
    cdef public object on_bytes
    cpdef object add(self, long long size)
    cpdef object remove(self, long long size)


cdef class WideNames:
    cdef public bytes exchange
    cdef public list queues
    cdef public list bindings
    cdef public long long durable
    cdef public long long fanout
    cdef public unsigned int id
    cdef public unsigned long long segment
    cpdef bytes payload(self, list queues, list bindings)


cdef class RouteEntry:
    cdef public Recorder recorder
    cdef public bytes key
    cdef public object names
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
    cdef public object segment
    cdef Tick _tick
    cdef long long _segment_bytes_max
    cdef unsigned long long _serial
    cdef dict _ids
    cdef unsigned int _next_id
    cdef list _names
    cdef long long _names_bytes
    cdef long long _new_names_bytes
    cdef Buf _records
    cdef Buf _keys
    cdef unsigned int _count
    cdef unsigned long long _events
    cdef long long _base_ts
    cdef bytes _key
    cdef RouteEntry _entry
    cdef long long _size
    cdef unsigned int _flags
    cdef unsigned int _same
    cdef unsigned long long _run
    cdef long long _tick_us
    cdef long long _now_us
    cdef long long _last_us
    cpdef bint note(self, RouteEntry entry, long long size, unsigned int flags) except -1
    @cython.locals(now_us="long long", key=bytes, backlog=Backlog)
    cdef object _begin_run(self, RouteEntry entry, long long size, unsigned int flags)
    @cython.locals(entry=RouteEntry, records=Buf)
    cdef object _end_run(self)
    @cython.locals(size="long long")
    cdef bint _is_full(self, Py_ssize_t key_size, long long now_us) except -1
    cdef bint _is_segment_due(self, long long now_us) except -1
    cdef object _enter(self, RouteEntry entry)
    cdef unsigned int _number(self, bytes payload) except? 4294967295
    @cython.locals(batch=Batch)
    cpdef object close(self)
    cpdef object roll(self)
    cpdef object begin(self, object segment, dict ids, unsigned int names, long long last_us)
    cpdef object stop(self)


cpdef long long waiting_bytes(Batch batch, list names) except -1
