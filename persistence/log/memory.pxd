cdef class MemoryBudget:
    cdef public long long limit
    cdef public long long used
    cpdef bint is_over(self)
