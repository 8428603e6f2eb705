from rnnparse.study.lr_range_test import range_test as range_test
from rnnparse.study.range_result import RangeTest as RangeTest
from rnnparse.study.search_space import Space as Space
from rnnparse.study.study import Study as Study
