from persistence.log.format.index cimport SparseIndex


cdef class Segment:
    cdef public str directory
    cdef public unsigned long long base
    cdef str _path
    cdef public unsigned long long end
    cdef public unsigned long long size
    cdef public unsigned long long written
    cdef public long long records
    cdef public long long live
    cdef public long long first_ts
    cdef public long long last_ts
    cdef public SparseIndex index
