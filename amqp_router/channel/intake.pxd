from persistence.memory cimport MemoryBudget


cdef class Intake:
    cdef public MemoryBudget account
    cdef public long long announced
    cpdef int admit(self, long long size) except -1
    cpdef void release(self, long long size)
