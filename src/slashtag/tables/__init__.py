"""Tables in files: written whole, read by one set of rules, and compared."""

from .._internal import AtomicFile as AtomicFile
from ._comparing import VOLATILE as VOLATILE
from ._comparing import Comparison as Comparison
from ._comparing import RowDifference as RowDifference
from ._comparing import compare_files as compare_files
from ._reading import LoadedTable as LoadedTable
from ._reading import load_table as load_table
from ._reading import read_table as read_table
from ._table import About as About
from ._table import Column as Column
from ._table import Row as Row
from ._table import Table as Table
from ._table import Writer as Writer
from ._writing import BATCH as BATCH
from ._writing import FORMATS as FORMATS
from ._writing import TextFormat as TextFormat
from ._writing import arrow_table as arrow_table
from ._writing import check_table_path as check_table_path
from ._writing import open_table as open_table
from ._writing import open_writer as open_writer
