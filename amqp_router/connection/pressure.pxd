cimport cython

from amqp_router.connection.alarms cimport Alarms
from persistence.memory cimport MemoryBudget


cdef class Pressure:
    cdef MemoryBudget _budget
    cdef Alarms _alarms
    cdef bint _is_on
    cdef long long _set_at
    cdef long long _clear_at
    @cython.locals(total=cython.longlong)
    cpdef void look(self)
