from rnnparse.encoder.bert_encoder import BertEncoder as BertEncoder
from rnnparse.encoder.loading import load_encoder as load_encoder
from rnnparse.encoder.protocol import Encoder as Encoder
from rnnparse.encoder.protocol import token_vectors as token_vectors
from rnnparse.encoder.vector_cache import CachedVectors as CachedVectors
from rnnparse.encoder.vector_cache import cached_vectors as cached_vectors
