cdef class MemoryBudget:
    cdef public long long limit
    cdef public long long used
    cdef public long long held
    cdef public long long kept
    cdef public long long arriving
    cdef public long long whole
    cdef public long long work
    cpdef long long take_work(self)
    cpdef long long total(self)
    cpdef bint admit(self, long long size, long long mine)
    cpdef void release(self, long long size)
