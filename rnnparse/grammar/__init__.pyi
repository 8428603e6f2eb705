from rnnparse.grammar.grammar import Grammar as Grammar
from rnnparse.grammar.grammar import estimate as estimate
from rnnparse.grammar.lexicon import Emissions as Emissions
from rnnparse.grammar.lexicon import Lexicon as Lexicon
from rnnparse.grammar.pcfg import Pcfg as Pcfg
from rnnparse.grammar.unknown import WordVectors as WordVectors
