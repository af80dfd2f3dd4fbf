// The families of operator handlers, one file each in this folder.
#ifndef TESSERA_LIB_IMPORT_OPS_FAMILIES_H
#define TESSERA_LIB_IMPORT_OPS_FAMILIES_H

namespace tessera {

class HandlerRegistry;
void addElementwiseHandlers(HandlerRegistry &registry);
void addConstantHandlers(HandlerRegistry &registry);
void addShapeHandlers(HandlerRegistry &registry);
void addIndexHandlers(HandlerRegistry &registry);
void addReduceHandlers(HandlerRegistry &registry);
void addProductHandlers(HandlerRegistry &registry);
void addNormalizationHandlers(HandlerRegistry &registry);
void addAttentionHandlers(HandlerRegistry &registry);
void addConvHandlers(HandlerRegistry &registry);
void addScatterHandlers(HandlerRegistry &registry);
void addPoolHandlers(HandlerRegistry &registry);
void addResizeHandlers(HandlerRegistry &registry);
void addExpertHandlers(HandlerRegistry &registry);
void addLossHandlers(HandlerRegistry &registry);
void addRandomHandlers(HandlerRegistry &registry);

} // namespace tessera
#endif
