from rnnparse.grammar.grammar import Grammar as Grammar
from rnnparse.grammar.grammar import estimate as estimate
from rnnparse.grammar.latent import LatentGrammar as LatentGrammar
from rnnparse.grammar.latent import estimate_latent as estimate_latent
from rnnparse.grammar.lexicon import Emissions as Emissions
from rnnparse.grammar.lexicon import Lexicon as Lexicon
from rnnparse.grammar.pcfg import Pcfg as Pcfg
from rnnparse.grammar.unknown import WordVectors as WordVectors
