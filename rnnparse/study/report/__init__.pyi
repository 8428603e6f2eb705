from rnnparse.study.report.csv_table import write_csv as write_csv
from rnnparse.study.report.hparams import write_hparams as write_hparams
from rnnparse.study.report.page import write_report as write_report
from rnnparse.study.report.results import Results as Results
from rnnparse.study.report.results import load_results as load_results
