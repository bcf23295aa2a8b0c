"""Translation of functions to LLVM, with NamedTuples as pointers and arrays in few instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core import types
from numba.core.lowering import Lower

from . import indexing
from .quick import has_all
from .records import Record, holds_record, model_of, origin

_BUILT_ON = {
    Lower: (
        "lower_assign", "loadvar", "storevar", "delvar", "getvar", "_alloca_var", "decref",
        "lower_getitem", "lower_setitem", "_lower_call_normal", "setup_function",
    )
}  # fmt: skip
SUPPORTED = has_all(_BUILT_ON)


class RecordLower(Lower):
    """Translates to LLVM: each variable that is a NamedTuple has separate memory."""

    copies_arguments = False

    def lower(self):
        """Find the variables that are arguments and are never assigned."""
        for name, kind in self.fndesc.typemap.items():
            if isinstance(kind, types.Optional) and holds_record(kind.type):
                raise TypeError(f"{name} may be None or hold a NamedTuple; it must be one of both")
        assigned: dict[str, list] = {}
        for block in self.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                assigned.setdefault(statement.target.name, []).append(statement.value)
        self._given: dict[str, Any] = {
            name: None
            for name, values in assigned.items()
            if len(values) == 1
            and isinstance(values[0], numba_ir.Arg)
            and isinstance(self.typeof(name), Record)
        }
        return super().lower()

    def setup_function(self, fndesc):
        """Declare to the builder that variables do not share memory."""
        super().setup_function(fndesc)
        self.builder.copies_records = True

    def lower_assign(self, ty, inst):
        """An argument is not reference counted: the caller holds it while this function runs."""
        if inst.target.name in self._given:
            return self.fnargs[inst.value.index]
        return super().lower_assign(ty, inst)

    def loadvar(self, name):
        """The value of a variable."""
        value = self._given.get(name)
        return super().loadvar(name) if value is None else value

    def storevar(self, value, name, argidx=None):
        """Set the value of a variable."""
        kind = self.typeof(name)
        if name in self._given:
            self._given[name] = self._own(value, kind, name) if self.copies_arguments else value
            return
        given = isinstance(origin(value), ir.Argument)
        if holds_record(kind) and not (given and not self.context.enable_nrt):
            if name not in self._singly_assigned_vars or self._disable_sroa_like_opt:
                self._alloca_var(name, kind)
                place = self.getvar(name)
                self.decref(kind, self.builder.load(place))
                self.builder.store(ir.Constant(place.type.pointee, None), place)
            value = self._own(value, kind, name)
        super().storevar(value, name, argidx)

    def delvar(self, name):
        """Delete the value of a variable."""
        if name not in self._given:
            super().delvar(name)

    def lower_getitem(self, resty, expr, value, index, signature):
        """An element or a view."""
        kinds = (self.typeof(value.name), self.typeof(index.name))
        if not indexing.is_supported(self.context, *kinds):
            return super().lower_getitem(resty, expr, value, index, signature)
        values = (self.loadvar(value.name), self.loadvar(index.name))
        found = indexing.get_item(self.context, self.builder, kinds, values, signature.return_type)
        return self.context.cast(self.builder, found, signature.return_type, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        """Set an element, or a slice to a number."""
        kinds = (self.typeof(target_var.name), self.typeof(index_var.name))
        number = self.typeof(value_var.name)
        one_axis = getattr(kinds[0], "ndim", 0) == 1
        if (
            not indexing.is_supported(self.context, *kinds)
            or not isinstance(number, (types.Number, types.Boolean))
            or (indexing.is_view(*kinds) and not one_axis)
        ):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        values = (self.loadvar(target_var.name), self.loadvar(index_var.name))
        value = self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, number, kinds[0].dtype)
        indexing.set_item(self.context, self.builder, kinds, values, value)
        return None

    def _lower_call_normal(self, fnty, expr, signature):
        """A call; ``reshape`` in few instructions."""
        if (
            isinstance(fnty, types.BoundFunction)
            and fnty.typing_key == "array.reshape"
            and not expr.kws
            and not expr.vararg
            and indexing.can_reshape(signature.recvr, signature.args)
        ):
            kinds = (signature.recvr, *(self.typeof(size.name) for size in expr.args))
            if indexing.can_reshape(kinds[0], kinds[1:]):
                sizes = [self.loadvar(size.name) for size in expr.args]
                values = (self.loadvar(expr.func.name), *sizes)
                return indexing.reshape(
                    self.context, self.builder, kinds, values, signature.return_type
                )
        return super()._lower_call_normal(fnty, expr, signature)

    def _own(self, value, kind, name):
        """The same value in memory of this variable."""
        if isinstance(kind, Record):
            model = model_of(self.context, kind)
            found = model.slot(self.builder, name)
            model.copy(self.builder, found, model.or_zeros(self.builder, value))
            return found
        for position, member in enumerate(kind):
            if holds_record(member):
                item = self.builder.extract_value(value, position)
                owned = self._own(item, member, f"{name}.{position}")
                value = self.builder.insert_value(value, owned, position)
        return value


class CopyingRecordLower(RecordLower):
    """The same for a function that Python calls."""

    copies_arguments = True
