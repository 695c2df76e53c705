cimport cython
from cpython.array cimport array


cdef class SparseIndex:
    cdef unsigned long long _interval
    cdef array _offsets
    cdef array _times
    cdef array _positions

    @cython.locals(positions=array)
    cpdef note(self, long long rel_offset, long long rel_ts_ms, unsigned long long position)
