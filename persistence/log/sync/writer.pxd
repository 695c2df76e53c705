cimport cython

from persistence.log.format.record cimport Batch
from persistence.log.format.segment cimport Segment
from persistence.plan cimport Target, Write

cdef unsigned long long _U32_MAX


cdef class PartitionWriter(Target):
    cdef public str directory
    cdef public BaseException failed
    cdef public object owner  # a log, which knows this module
    cdef public unsigned long salt
    cdef public unsigned long long position
    cdef public unsigned long long synced_to
    cdef object _disk
    cdef object _files
    cdef bint _is_first
    cdef dict _description
    cdef list _unsynced_names
    cdef Segment _segment
    cdef str _path

    @cython.locals(segment=Segment, batch=Batch, size=cython.longlong)
    cpdef long long open_bytes(self, list batches) except? -2
    @cython.locals(batch=Batch, start=cython.ulonglong, end=cython.ulonglong, pieces=list)
    cpdef Write plan(self, list batches)
    cpdef file(self)
    cpdef wrote(self, unsigned long long end)
    cpdef synced(self)
